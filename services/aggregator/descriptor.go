package aggregator

import (
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/services/aggregator/about"
)

func init() { service.Register(descriptor()) }

// descriptor is the service as a process runs it.
func descriptor() service.Descriptor {
	return service.Descriptor{
		Service: about.Service(), Light: true,
		New: func(d *deployment.Deployment, _ service.Settings) (lifecycle.Service, error) { return New(d), nil },
	}
}
