// Package testservices registers the services for tests of packages below them, which read
// the catalog and cannot import package services, as that imports them. It is imported for
// its effect. A service that no such test asks for need not be here.
package testservices

import (
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	aggregator "github.com/switchyard/switchyard/services/aggregator/about"
	attention "github.com/switchyard/switchyard/services/attention/about"
	expert "github.com/switchyard/switchyard/services/expert/about"
	gate "github.com/switchyard/switchyard/services/gate/about"
	gateway "github.com/switchyard/switchyard/services/gateway/about"
	predictor "github.com/switchyard/switchyard/services/predictor/about"
	scaler "github.com/switchyard/switchyard/services/scaler/about"
	tokenizer "github.com/switchyard/switchyard/services/tokenizer/about"
)

func init() {
	catalog.Register(
		tokenizer.Service(), attention.Service(), gate.Service(), expert.Service(), aggregator.Service(),
		predictor.Service(), scaler.Service(), gateway.Service(),
	)
}
