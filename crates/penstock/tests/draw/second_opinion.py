"""A second opinion on the draw, written from docs/draw.md and from nothing else.

Reads one JSON object a line from stdin, {"seed": hex, "sale": id, "count": n, "numbers": [...]}, and answers each with
one line, {"seed_sha256": hex, "places": [...]}. Places count from 0.
"""

import json
import sys
from hashlib import sha256

ROUNDS = 10
MIN_BITS = 6


def as_bytes(number):
    return number.to_bytes(8, "big")


def bits_for(count):
    bits = MIN_BITS
    while 2**bits < count:
        bits += 1
    return bits


class Feistel:
    def __init__(self, seed, sale, count):
        message = b"penstock draw 1" + seed + sale.encode("ascii") + as_bytes(count)
        self.key = sha256(message).digest()
        bits = bits_for(count)
        self.left_bits = bits // 2
        self.right_bits = bits - self.left_bits

    def f(self, i, x):
        digest = sha256(self.key + bytes([i]) + as_bytes(x)).digest()
        return int.from_bytes(digest[:8], "big")

    def permute(self, value):
        left, right = divmod(value, 2**self.right_bits)
        for i in range(ROUNDS):
            if i % 2 == 0:
                left ^= self.f(i, right) % 2**self.left_bits
            else:
                right ^= self.f(i, left) % 2**self.right_bits
        return left * 2**self.right_bits + right


def place_of(number, count, feistel):
    if number >= count:
        return number
    value = feistel.permute(number)
    while value >= count:
        value = feistel.permute(value)
    return value


def answer(question):
    seed = bytes.fromhex(question["seed"])
    count = question["count"]
    feistel = Feistel(seed, question["sale"], count)
    return {
        "seed_sha256": sha256(seed).hexdigest(),
        "places": [place_of(number, count, feistel) for number in question["numbers"]],
    }


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
