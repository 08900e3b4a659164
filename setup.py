"""Packages of the distribution. Everything else is in `pyproject.toml`.

The folders at the top level are the subpackages of `arbora`, and `package/` is its root. They are found, not listed, so
that a new subfolder is installed without anybody having to think of it.
"""

from setuptools import find_packages, setup

ROOMS = ["cli", "data", "decoders", "evaluation", "model", "reproduction"]

setup(
    packages=["arbora", *(f"arbora.{name}" for name in find_packages(include=[f"{room}*" for room in ROOMS]))],
    package_dir={"arbora": "package", **{f"arbora.{room}": room for room in ROOMS}},
)
