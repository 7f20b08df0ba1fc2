"""Writes small files that unpack to much into the folder given as argument."""
import os, struct, sys, zipfile, zlib
folder = sys.argv[1]

# 20,000 messages that point at one text of 2 MB: 80 GB.
count, text = 20_000, b"a b " * 500_000
at = 28 + 16 * count
with open(f"{folder}/shared.mo", "wb") as file:
    file.write(struct.pack("<7I", 0x950412DE, 0, count, 28, 28 + 8 * count, 0, 0))
    file.write(struct.pack("<2I", len(text), at) * (2 * count) + text)

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

def put_pictures(name, chunks):
    for kind in "ab":
        for i in range(2):
            os.makedirs(f"{folder}/{name}/{kind}", exist_ok=True)
            with open(f"{folder}/{name}/{kind}/{i}.png", "wb") as file:
                file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0))
                           + chunks + chunk(b"IEND", b""))

rows = b"\0" * 72
packer = zlib.compressobj(9)
much = packer.compress(rows) + b"".join(packer.compress(bytes(1 << 20)) for _ in range(512)) + packer.flush()
put_pictures("pixels", chunk(b"IDAT", much))
comment = chunk(b"zTXt", b"k\0\0" + zlib.compress(b"a" * 1_000_000, 9))
put_pictures("comments", comment * 2000 + chunk(b"IDAT", zlib.compress(rows)))

def npy(shape, count):
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + bytes(count)

with zipfile.ZipFile(f"{folder}/entry.npz", "w", zipfile.ZIP_DEFLATED) as file:
    file.writestr("x.npy", npy("(8,)", 1 << 28))
    file.writestr("y.npy", npy("(8,)", 8))
