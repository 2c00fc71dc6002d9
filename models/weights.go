//go:build !cuda

package models

import _ "embed"

//go:embed demo/model.safetensors.packed
var demoWeights string
