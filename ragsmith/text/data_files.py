"""Data files of the package, such as word lists, each in the folder of the module that reads it."""

from hashlib import blake2b
from importlib.resources import files


def read_data(package: str, name: str, digest: str) -> str:
    """Return the text of the data file ``name`` in ``package``.

    The digest (BLAKE2b, 8 bytes, hexadecimal) is a constant of the calling module, so that a change of the data changes
    the fingerprint of the code that uses it.

    Raises:
        RuntimeError: the file has another digest.
    """
    text = files(package).joinpath(name).read_text(encoding="utf-8")
    found = blake2b(text.encode(), digest_size=8).hexdigest()
    if found != digest:
        raise RuntimeError(f"{name} has the digest {found}, not {digest}: write the new one where it is read")
    return text
