"""What the S3 view shows of committed states: pages of objects, and single ones. Changes
nothing."""
