"""Files of protobuf messages and of arrays, by hand: ONNX models, and NPZ files for them."""
import io, math, random, struct, sys, zipfile

def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7f | 0x80])
        n >>= 7
    return out + bytes([n])

def number(field, n):
    return varint(field << 3) + varint(n)

def part(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data

def node(kind, inputs, outputs, name="", attributes=b""):
    return part(1, b"".join(part(1, i) for i in inputs) + b"".join(part(2, o) for o in outputs) +
                part(3, name) + part(4, kind) + attributes)

def integer(name, n):
    return part(5, part(1, name) + number(3, n) + number(20, 2))

def value(field, name, dims, kind=1):
    shape = b"".join(part(1, part(2, d) if isinstance(d, str) else number(1, d)) for d in dims)
    return part(field, part(1, name) + part(2, part(1, number(1, kind) + part(2, shape))))

def tensor(name, dims, data, kind=1):
    return part(5, b"".join(number(1, d) for d in dims) + number(2, kind) + part(8, name) + data)

def random_tensor(name, dims, most):
    count = math.prod(dims)
    numbers = [random.uniform(-most, most) for _ in range(count)]
    return tensor(name, dims, part(9, struct.pack(f"<{count}f", *numbers)))

def model(graph):
    return number(1, 8) + part(7, graph) + part(8, number(2, 17))

def array(dims, numbers, kind="<f4"):
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(dims)!r}, }}"
    text += " " * (63 - (10 + len(text)) % 64) + "\n"
    code = {"<f4": "f", "<i8": "q", "<f2": "e"}[kind]
    return (b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() +
            struct.pack(f"<{len(numbers)}{code}", *numbers))

def put_npz(path, arrays):
    with zipfile.ZipFile(path, "w") as file:
        for name, data in arrays.items():
            file.writestr(name + ".npy", data)

def get_npz(path, name):
    data = zipfile.ZipFile(path).read(name + ".npy")
    start = 10 + struct.unpack("<H", data[8:10])[0]
    return [number for number, in struct.iter_unpack("<f", data[start:])], data[10:start].decode()
