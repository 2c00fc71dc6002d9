// Package predict estimates how many rows each expert of a layer will get, some
// layers before the layer's gate says so: the Expert Load Predictor of MoEless
// (arXiv:2603.06350, §4.1) and the predictors that it is compared with (§6.3).
//
// The prediction distance d is how many layers ahead: the rows that reach the
// gate of layer l (its gate inputs) tell the loads of layer l+d. Hidden states
// change little from layer to layer because of the residual connections, so a
// gate understands much of the inputs of gates before it.
//
//	Reused      the gate of layer l+d as it is (Mixtral-offloading)
//	LayerAware  a copy of that gate, fine-tuned where Reused is below a threshold (MoEless)
//	Learned     a network of two layers, trained from scratch (ProMoE)
//	History     the mean of the loads of a window, whatever the rows (EPLB)
//	Oracle      the loads themselves
//
// Predictions decide about replicas and memory, never about a token: they need
// no fixed order of sums.
//
// # Accuracy
//
// The paper plots "expert load prediction accuracy" between 0 and 1 for a layer
// and a distance (figures 6, 7 and 11), compares predictors of expert selections
// by it, and gives no formula. Two measures fit the words, and both are reported:
//
//   - Accuracy, by which the threshold h decides and methods are compared: of the
//     experts that the gate chooses for a row (top-k), the share that is among the
//     k which the predictor ranks highest for that row; the mean over rows. It is
//     how the predictors that the paper compares with measure themselves.
//   - Load accuracy: of a batch's routed rows, the share that was predicted for the
//     expert that gets them, Σ min(predicted, actual) / Σ actual. It is 1 less the
//     total variation distance of the two distributions, and never below the
//     accuracy of the same rows when loads are counted choices: wrong choices of
//     different rows make up for one another.
//
// History has no choice for single rows; its ranking is that of its loads.
package predict
