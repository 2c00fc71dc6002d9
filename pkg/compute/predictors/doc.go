// Package predictors joins the load predictors of pkg/policy/predict with files:
// the gates of a model, and weights that were trained for it.
//
// Weights lie in a safetensors file. Its metadata name the model's hash, so that
// no other model is predicted with them; "distance.D.layer.L.gate" (E, D) is the
// fine-tuned gate that predicts layer L from D layers before it, and
// "….adapter.w1" (H, D+E), ".b1" (H), ".w2" (E, H) and ".b2" (E) what is added to it.
// Layers that need no tuning have none: their gates are reused.
package predictors
