//go:build !cuda

package models

import _ "embed"

//go:embed demo/model.safetensors.packed
var demoWeights string

// DemoPredictor is the packed file of weights that predict the demo model's loads, as
// switchyard train-predictor made it; docs/predictors.md says how. It is empty where the
// binary lacks the demo model.
//
//go:embed demo-predictor.safetensors.packed
var DemoPredictor []byte
