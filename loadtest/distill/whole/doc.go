// Package whole has students learn from what a whole model says: rows go through all layers, the
// experts that a brownout spares being replaced by students, and the students' weights go against the
// gradient of how far the next token's distribution is from that without a brownout
// (Kullback and Leibler's divergence).
//
// Everything but the students is frozen. A Lane computes some sequences, forth and back, in
// float32 and without rounding to a wire type; the caller decides who computes which row. It computes
// what decoders like Qwen2-MoE and Mixtral do; Check names what else a model has.
package whole
