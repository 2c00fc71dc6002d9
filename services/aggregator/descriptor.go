package aggregator

import (
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
)

// Descriptor returns the service as a process runs it.
func Descriptor() service.Descriptor {
	return service.Descriptor{
		Service: catalog.Aggregator,
		New:     func(d *deployment.Deployment, _ service.Settings) (lifecycle.Service, error) { return New(d), nil },
	}
}
