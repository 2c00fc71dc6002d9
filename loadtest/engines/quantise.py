"""Quantises a GGUF file as llama.cpp does: quantise.py IN.gguf OUT.gguf Q4_K_M|Q8_0|Q4_0

Needs what llama.py needs.
"""
import sys

import llama_cpp as llama

KINDS = {"Q4_0": 2, "Q8_0": 7, "Q4_K_M": 15}  # of enum llama_ftype


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[3] not in KINDS:
        sys.exit(__doc__)
    params = llama.llama_model_quantize_default_params()
    params.ftype, params.nthread = KINDS[sys.argv[3]], 2
    if code := llama.llama_model_quantize(sys.argv[1].encode(), sys.argv[2].encode(), params):
        sys.exit(f"llama.cpp quantised nothing: {code}")
