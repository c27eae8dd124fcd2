"""A request of an S3 client that is refused, by the codes that S3 has."""

from __future__ import annotations


class S3Refused(Exception):
    """`code` is one of https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html."""

    def __init__(self, code: str, status: int, message: str) -> None:
        super().__init__(message)
        self.code, self.status = code, status
