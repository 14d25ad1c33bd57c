"""Prints a verdict of marathon-judge in a few lines.   show.py RESULT.json"""
import json
import sys

verdict = json.load(open(sys.argv[1]))
if "pairs" in verdict:
    pairs = verdict["pairs"]
    print(f"{len(pairs)} pairs, {verdict['called_different']} called different, noise {100 * verdict['noise']:.2f} %, "
          f"{sum(p['seconds'] for p in pairs):.0f} s")
    for shape in verdict["shapes"]:
        print(f"    {shape['name']:<24} {shape['median_us']:10.2f} us  noise of one measurement {100 * shape['noise']:.2f} % "
              f"(worst {100 * shape['worst_noise']:.2f} %)")
if "verdict" not in verdict:
    if "pairs" not in verdict:
        print(verdict)
    sys.exit()
by = verdict["provenance"]
print(f"{verdict['verdict']}  {verdict['speedup']:.3f} ({verdict['low']:.3f}-{verdict['high']:.3f})  "
      f"check {by['check_s']:.1f} s, measure {by['measure_s']:.1f} s, clocks disagree by "
      f"{100 * by['clock_disagreement']:.1f} %")
for reason in verdict["reasons"]:
    print("   ", reason[:400])
for shape in verdict["shapes"]:
    print(f"    {shape['name']:<24} {shape['set'] if 'set' in shape else '':<8} cold {shape['cold_us']:9.2f} warm "
          f"{shape['warm_us']:9.2f} baseline {shape['baseline_us']:9.2f} floor {shape['floor_us']:8.2f} us  error "
          f"{shape['error']:.2e} of baseline {shape['baseline_error']:.2e}  {shape['reason'][:200]}")
