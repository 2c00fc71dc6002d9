package gateway

import (
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
)

// Descriptor returns the service as a process runs it.
func Descriptor() service.Descriptor {
	return service.Descriptor{
		Service: catalog.Gateway, Flags: service.FlagsOf((*Command).Config),
		Bare: func(b service.Bare, s service.Settings) (lifecycle.Service, error) {
			return New(b, service.Own[Config](s)), nil
		},
	}
}
