#!/usr/bin/env python3
"""A warehouse outside the hub: the stock side of checkouts, in one sqlite file. Standard library only.

    python3 warehouse.py --port 8000 --db warehouse.sqlite
    curl -X POST http://127.0.0.1:8000/stock/ITEM/10           # there are 10 of it now
    holdfast serve --set shop.stock=http://127.0.0.1:8000/steps

The hub repeats every request until it has an answer, and may send the rollback of a try before the try itself. So each
step has one row, written in the same transaction as its effect, and whatever comes again gets the answer of that row.
"""

import argparse
import json
import sqlite3
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TABLES = """
CREATE TABLE IF NOT EXISTS stock (item TEXT PRIMARY KEY, amount INTEGER NOT NULL CHECK (amount >= 0));
CREATE TABLE IF NOT EXISTS steps (
    order_id TEXT, tr_num INTEGER, was_rollback INTEGER, outcome TEXT NOT NULL, items TEXT NOT NULL,
    PRIMARY KEY (order_id, tr_num, was_rollback)
);
"""


def step(db, key, value):
    """Does a step once, and says what came of it however often it is asked."""
    order, tr, rollback = key["order_id"], key["tr_num"], value["type"] == "add"
    if value["type"] not in ("sub", "add"):
        raise ValueError(f"a warehouse knows sub and add, not {value['type']}")
    find = "SELECT outcome, items FROM steps WHERE order_id = ? AND tr_num = ? AND was_rollback = ?"
    done = db.execute(find, (order, tr, rollback)).fetchone()
    if done:
        return done[0]
    other = db.execute(find, (order, tr, not rollback)).fetchone()
    if rollback:
        # Give back what was taken, and only if it was.
        if other and other[0] == "ssucc":
            move(db, json.loads(other[1]), +1)
        outcome = "asucc"
    elif other:
        # It was called off before it came: it must not take any more.
        outcome = "sfail"
    else:
        outcome = "ssucc" if take(db, value["items"]) else "sfail"
    row = (order, tr, rollback, outcome, json.dumps(value["items"]))
    db.execute("INSERT INTO steps VALUES (?, ?, ?, ?, ?)", row)
    return outcome


def take(db, items):
    for item in items:
        there = db.execute("SELECT amount FROM stock WHERE item = ?", (item["id"],)).fetchone()
        if there is None or there[0] < item["amnt"]:
            return False
    move(db, items, -1)
    return True


def move(db, items, sign):
    for item in items:
        db.execute("UPDATE stock SET amount = amount + ? WHERE item = ?", (sign * item["amnt"], item["id"]))


class Warehouse(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = self.path.strip("/").split("/")
        try:
            if parts == ["steps"]:
                asked = json.loads(body)
                self.answer(200, self.inside(lambda db: {"outcome": step(db, asked["key"], asked["value"])}))
            elif len(parts) == 3 and parts[0] == "stock":
                put = "INSERT OR REPLACE INTO stock VALUES (?, ?)"
                self.inside(lambda db: db.execute(put, (parts[1], int(parts[2]))))
                self.answer(200, {})
            else:
                self.answer(404, {"error": f"there is no {self.path}"})
        except (ValueError, KeyError, TypeError) as error:
            self.answer(400, {"error": str(error)})

    def do_GET(self):
        item = self.path.removeprefix("/stock/")
        found = self.inside(lambda db: db.execute("SELECT amount FROM stock WHERE item = ?", (item,)).fetchone())
        self.answer(200 if found else 404, {"amount": found[0]} if found else {"error": f"there is no {item}"})

    def inside(self, act):
        """Runs in one transaction. The hub hears of nothing that is not on disk."""
        db = sqlite3.connect(self.server.file, timeout=30, isolation_level=None)
        try:
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN IMMEDIATE")
            result = act(db)
            db.execute("COMMIT")
            return result
        finally:
            # Without COMMIT nothing has happened.
            db.close()

    def answer(self, status, said):
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description="the stock side of checkouts, outside the hub")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--db", default="warehouse.sqlite")
    options = parser.parse_args()
    db = sqlite3.connect(options.db)
    db.executescript(TABLES)
    db.close()
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Warehouse)
    server.file = options.db
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
