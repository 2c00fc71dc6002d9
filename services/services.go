// Package services lists the services, a line each. A program that runs some imports it for
// its effect: it registers them.
package services

import (
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/services/aggregator"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/expert"
	"github.com/switchyard/switchyard/services/gate"
	"github.com/switchyard/switchyard/services/gateway"
	"github.com/switchyard/switchyard/services/predictor"
	"github.com/switchyard/switchyard/services/scaler"
	"github.com/switchyard/switchyard/services/tokenizer"
)

// The order is that of a token's way, and behind it that of starting.
func init() {
	service.Register(
		tokenizer.Descriptor(),
		attention.Descriptor(),
		gate.Descriptor(),
		expert.Descriptor(),
		aggregator.Descriptor(),
		predictor.Descriptor(),
		scaler.Descriptor(),
		gateway.Descriptor(),
	)
}
