"""The flights example: its data (`data`) and its blueprint (`blueprint_folder`), both also for who
installed a wheel."""

from pathlib import Path


def blueprint_folder() -> Path:
    """The folder of `flights.yaml` and `transforms/`: packaged in a wheel, `blueprints/flights` of
    a checkout."""
    packaged = Path(__file__).parent / "flights"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "blueprints" / "flights"
