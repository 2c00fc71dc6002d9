// Package services lists the services, a line each. A program that runs some imports it for
// its effect: each registers itself.
package services

import (
	_ "github.com/switchyard/switchyard/services/aggregator"
	_ "github.com/switchyard/switchyard/services/attention"
	_ "github.com/switchyard/switchyard/services/expert"
	_ "github.com/switchyard/switchyard/services/gate"
	_ "github.com/switchyard/switchyard/services/gateway"
	_ "github.com/switchyard/switchyard/services/predictor"
	_ "github.com/switchyard/switchyard/services/scaler"
	_ "github.com/switchyard/switchyard/services/tokenizer"
)
