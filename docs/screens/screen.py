#!/usr/bin/env python3
"""Makes a picture (SVG) of what a terminal shows: text on stdin, or from tmux (make.sh does all of it).

    tmux new-session -d -s top -x 80 -y 24 'bin/switchyard top'
    tmux capture-pane -p -t top | docs/screens/screen.py 80 24 > docs/screens/top-80x24.svg
"""

import html
import sys

WIDTH, HEIGHT = int(sys.argv[1]), int(sys.argv[2])
CELL, LINE, EDGE = 8.4, 17, 10  # of a character of 14 pixels

lines = [line.rstrip("\n")[:WIDTH] for line in sys.stdin][:HEIGHT]
w, h = WIDTH * CELL + 2 * EDGE, HEIGHT * LINE + 2 * EDGE
print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{w:.0f}" height="{h:.0f}" viewBox="0 0 {w:.0f} {h:.0f}">')
print(f'<rect width="100%" height="100%" rx="6" fill="#1b1f27"/>')
print('<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" fill="#d7dae0" xml:space="preserve">')
for i, line in enumerate(lines):
    if not line.strip():
        continue
    y = EDGE + i * LINE
    fill = ""
    if "NOT SERVING" in line:  # shown in reverse
        print(f'<rect x="{EDGE}" y="{y}" width="{WIDTH * CELL:.0f}" height="{LINE}" fill="#d7dae0"/>')
        fill = ' fill="#1b1f27"'
    # Each line is as long as it has characters, whatever the font is.
    print(f'<text x="{EDGE}" y="{y + 13}" textLength="{len(line) * CELL:.1f}" lengthAdjust="spacingAndGlyphs"{fill}>{html.escape(line)}</text>')
print("</g></svg>")
