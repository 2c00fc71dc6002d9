package gateway

import (
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/services/gateway/about"
)

func init() { service.Register(descriptor()) }

// descriptor is the service as a process runs it.
func descriptor() service.Descriptor {
	return service.Descriptor{
		Service: about.Service(), Flags: service.FlagsOf((*Command).Config), Light: true,
		Bare: func(b service.Bare, s service.Settings) (lifecycle.Service, error) {
			return New(b, service.Own[Config](s)), nil
		},
	}
}
