// Package cpu holds the kernels that compute on the processor.
//
// # Numeric contract
//
// Every kernel has one order of operations, whatever the number of rows, the
// tiling, the threads and the variant; the class of that contract is Class.
// fma(a, b, c) is a·b+c rounded once to float32.
//
//   - MatMul: y[r,n] = Σ_k x[r,k]·w[n,k] is one chain acc = fma(x[k], w[n,k], acc)
//     over ascending k from +0. Vector lanes run over n, never over k.
//     A packed weight is first decoded: an MXFP4 code times its block's power of
//     two (exact; minus zero counts as zero), or an FP8 code times its block's
//     scale, rounded once; a code of Q8 or Q4 times its group's scale is exact; a code as
//     a Coding says is fma(code, scale, offset). So the bits are those of the decoded matrix in float32.
//   - MatMul with W8A8 and W4A8: rows are rounded to codes first (Rounded); for each group of
//     inputs in ascending order acc = fma(Σ code·code, weight's scale · row's scale, acc). The sum is
//     of whole numbers and exact.
//   - MatMul with W16A16: rows are rounded to bf16 first (Rounded), ties to even; for each pair of inputs
//     acc = fma(x[k+1], w[n,k+1], acc), then acc = fma(x[k], w[n,k], acc). Numbers below the normal
//     range count as zero before, and become zero after: that is what VDPBF16PS does. The variant "amx"
//     computes what TDPBF16PS does, and has a class of its own (PairsClass): for each 32 inputs e = fma(x[k], w[n,k], e)
//     over the even ones, o over the odd ones, both from +0, and acc = acc + (e + o), with numbers below the range as before.
//   - Sums over a vector (RMSNorm, LayerNorm, Softmax) run over 16 lanes: lane i mod 16,
//     ascending, then l[i] += l[i+8], l[i] += l[i+4], l[i] += l[i+2], l[0]+l[1].
//   - Attend: a score is a chain over the head's dimensions, then times scale;
//     the exponentials' sum runs over 16 lanes by absolute position; an output
//     is a chain over ascending positions, then times 1/sum. A sink's exponential
//     is added to the sum last.
//     Of pages of codes a score is the chain over codes, as float32, times its key's scale, and an
//     output's chain takes e^… times the value's scale, each product rounded.
//   - AttendLatent: the same, with a whole line as key and its first elements as value.
//   - exp is one polynomial of explicit FMAs (exp32), and so is what GELU makes of
//     it (gelu32).
//
// The variants "amx" (but for W16A16), "avx512bf16", "avx512vnni", "avx512", "avx2" and "generic" (plain Go, any architecture) all
// give the same bits, except for the payload of a NaN: generic computes an
// exact float32 FMA through float64, or by the instruction on arm64. It is
// slow, and meant for machines without AVX2 and for tests.
//
// # Shapes
//
// One legend for kernels, forward and model: R rows (tokens of a step); K inputs
// and N outputs of a matrix; D hidden size; H query heads, G key/value heads, Q
// query heads that share one of those (H = G·Q), C head size; P positions; E
// experts of a layer, k of them chosen a token, F an expert's inner width; V
// vocabulary. Tensors are row-major float32 unless a type is named; a leading
// dimension counts elements.
//
// No single call into assembly runs longer than about 200 µs on the shapes of
// known models, because Go cannot preempt it.
package cpu
