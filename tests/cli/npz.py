"""Writes NPY and NPZ files without NumPy, which tests of the command line do without."""

import struct
import zipfile

KINDS = {"<f4": "f", "|u1": "B", "<i4": "i"}  # NumPy's names of types, and struct's


def npy(shape, code, numbers):
    """The bytes of an NPY file."""
    head = str({"descr": code, "fortran_order": False, "shape": tuple(shape)}).encode()
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head +
            struct.pack(f"<{len(numbers)}{KINDS[code]}", *numbers))


def write_npz(path, **arrays):
    """Arrays by name, each (shape, code, numbers)."""
    with zipfile.ZipFile(path, "w") as file:
        for key, array in arrays.items():
            file.writestr(f"{key}.npy", npy(*array))
