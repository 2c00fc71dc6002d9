//go:build cuda

package models

// demoWeights are left out: the kernels are in their place, and who has a GPU has a model.
const demoWeights = ""

// DemoPredictor is left out with the model that it is of.
var DemoPredictor []byte
