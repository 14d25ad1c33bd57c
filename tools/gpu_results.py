#!/usr/bin/env python3
"""Keeps what a person needs of GPU verdicts, and writes the table from it.

  tools/gpu_results.py add RESULTS.json DATE VERDICT.json …   appends compact records of marathon-judge's results
  tools/gpu_results.py table RESULTS.json                    prints docs/benchmarks/h200.md's table
"""
import json
import pathlib
import statistics
import sys


def load(path):
    return json.loads(path.read_text()) if path.exists() else []


def add(path, date, files):
    records = load(path)
    for file in files:
        verdict = json.loads(pathlib.Path(file).read_text())
        candidate, _, baseline = pathlib.Path(file).stem.partition("-over-")
        by = verdict["provenance"]
        shapes = []
        for shape in verdict["shapes"]:
            record = {"name": shape["name"], "set": shape["set"], "error": shape["error"],
                      "bound": max((o["bound"] for o in shape["outputs"]), default=0)}
            samples = [1e-3 * ns for ns in shape["samples"]["candidate_ns"]]
            if samples:
                q = statistics.quantiles(samples, n=20) if len(samples) > 1 else samples * 19
                record |= {"median_us": round(statistics.median(samples), 3), "p5_us": round(q[0], 3),
                           "p95_us": round(q[18], 3), "baseline_us": round(shape["baseline_us"], 3),
                           "floor_us": round(shape["floor_us"], 3), "samples": len(samples)}
            shapes.append(record)
        records.append({"candidate": candidate, "baseline": baseline, "date": date, "gpu": by["cpu"].split(" GPU-")[0],
                        "verdict": verdict["verdict"], "speedup": round(verdict["speedup"], 4),
                        "low": round(verdict["low"], 4), "high": round(verdict["high"], 4),
                        "check_s": round(by["check_s"], 1), "measure_s": round(by["measure_s"], 1),
                        "sandbox": by["sandbox"], "reasons": verdict["reasons"], "shapes": shapes})
    path.write_text("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in records) + "\n]\n")


def table(path):
    print("| candidate over baseline | verdict | shape | cold, µs (5–95 %) | baseline, µs | floor, µs | worst error (allowed) |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for r in load(path):
        title = f"{r['candidate']} over {r['baseline']}"
        verdict = r["verdict"] + (f" {r['speedup']:.2f}× ({r['low']:.2f}–{r['high']:.2f})" if r["speedup"] else "")
        timed = [s for s in r["shapes"] if "median_us" in s]
        rest = [s for s in r["shapes"] if "median_us" not in s]
        for s in timed:
            print(f"| {title} | {verdict} | {s['name']} | {s['median_us']:.2f} ({s['p5_us']:.2f}–{s['p95_us']:.2f}) | "
                  f"{s['baseline_us']:.2f} | {s['floor_us']:.2f} | {s['error']:.1e} ({s['bound']:.1e}) |")
            title = verdict = ""
        if rest:
            worst = max(rest, key=lambda s: s["error"] / s["bound"] if s["bound"] else 0)
            print(f"| {title} | {verdict} | {len(rest)} hidden and stress shapes, right | | | | {worst['error']:.1e} "
                  f"({worst['bound']:.1e}) at {'a hidden shape' if worst['set'] == 'hidden' else worst['name']} |")


if __name__ == "__main__":
    if len(sys.argv) >= 4 and sys.argv[1] == "add":
        add(pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
    elif len(sys.argv) == 3 and sys.argv[1] == "table":
        table(pathlib.Path(sys.argv[2]))
    else:
        sys.exit(__doc__)
