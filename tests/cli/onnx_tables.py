"""Rows of a CSV file as the input of an exported network of tables, and its logits.

    onnx_tables.py put CSV NPZ COLUMN...   # NAME, or NAME=CATEGORY,... whose categories are 0 or 1
    onnx_tables.py same OUTPUTS RAW        # all logits have the bits of RAW (NPZ of predict --raw)
"""
import csv, struct, sys, zipfile
sys.dont_write_bytecode = True
from onnx_files import array, get_npz, put_npz


def put(table, npz, *columns):
    rows = []
    with open(table) as file:
        for line in csv.DictReader(file):
            row = []
            for name, _, categories in (column.partition("=") for column in columns):
                if categories:
                    row += [float(line[name] == one) for one in categories.split(",")]
                else:
                    row.append(float(line[name] or "nan"))
            rows.append(row)
    put_npz(npz, {"columns": array((len(rows), len(rows[0])), [x for row in rows for x in row])})


def whole_numbers(path, name):
    data = zipfile.ZipFile(path).read(name + ".npy")
    start = 10 + struct.unpack("<H", data[8:10])[0]
    return [number for number, in struct.iter_unpack("<i", data[start:])]


def same(outputs, raw):
    found, _ = get_npz(outputs, "logits")
    mantissas, (exponent,) = whole_numbers(raw, "mantissas"), whole_numbers(raw, "exponent")
    assert len(found) == len(mantissas) > 0 and len(set(found)) > 10, (len(found), len(mantissas))
    wrong = sum(x != m * 2.0 ** exponent for x, m in zip(found, mantissas))
    print(f"{wrong} of {len(found)} logits differ")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    {"put": put, "same": same}[sys.argv[1]](*sys.argv[2:])
