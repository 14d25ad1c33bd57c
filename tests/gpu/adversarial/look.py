"""Compares what a fixture got with what it must get; for run.sh.

  look.py FIXTURE STEM SECONDS WITHOUT_GPU ROWS     STEM.verdict, STEM.error: what `marathon judge` said
  look.py --collect ROWS                            all rows as one JSON
"""
import json
import pathlib
import re
import sys

NO_GPU = "no GPU"


def header(text, key):
    found = re.search(rf"^(?://|#) {key}: *(.*)$", "\n".join(text.splitlines()[:4]), re.MULTILINE)
    return found.group(1).strip() if found else ""


def compare(fixture, stem, without_gpu):
    text = pathlib.Path(fixture).read_text()
    row = {"name": f"{pathlib.Path(fixture).parent.name}/{pathlib.Path(fixture).name}",
           "expected": header(text, "expect"), "verdict": NO_GPU, "reason": ""}
    said = pathlib.Path(stem + ".verdict").read_text()
    error = pathlib.Path(stem + ".error").read_text().strip().splitlines()
    if said.strip():
        verdict = json.loads(said)
        row["verdict"] = verdict["verdict"]
        row["reason"] = (" ".join(verdict["reasons"][:1]).splitlines() or [""])[0][:300]
        row["speedup"] = verdict["speedup"]
        reason = header(text, "reason")
        row["ok"] = row["verdict"] in row["expected"].split("|") and reason in " ".join(verdict["reasons"])
        return row
    row["reason"] = error[-1][:300] if error else "it said nothing"
    before_gpu = {"rule_broken", "build_failed"}
    needs_gpu = header(text, "needs") == "gpu" or not set(row["expected"].split("|")) <= before_gpu
    row["ok"] = bool(without_gpu) and needs_gpu and "no NVIDIA driver here" in row["reason"]
    if not row["ok"]:
        row["verdict"] = "no verdict"
    return row


def main():
    if sys.argv[1] == "--collect":
        rows = [json.loads(line) for line in pathlib.Path(sys.argv[2]).read_text().splitlines()]
        print("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]")
        return 0
    fixture, stem, seconds, without_gpu, rows = sys.argv[1:]
    row = compare(fixture, stem, int(without_gpu))
    row["seconds"] = round(float(seconds), 1)
    with open(rows, "a") as file:
        file.write(json.dumps(row) + "\n")
    print(f"{'ok     ' if row['ok'] else 'DIFFERS'} {row['name']:<42} {row['expected']:<28} {row['verdict']:<12} "
          f"{row['seconds']:6.1f} s  {row['reason'][:110]}", flush=True)
    return 0 if row["ok"] else 1


sys.exit(main())
