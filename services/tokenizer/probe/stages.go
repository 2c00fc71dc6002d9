package probe

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// stages are the services that every token passes, and what is missing without one.
var stages = []struct{ service, lack string }{
	{"attention", "no attention replica of model %s is ready"},
	{"gate", "no gate of model %s is ready: none has a plan whose functions are all warm"},
	{"expert", "no expert host of model %s is ready"},
	{"aggregator", "no aggregator of model %s is ready"},
}

// Lacks says whether no replica of a service is ready.
func Lacks(all []*pb.Member, service string) bool {
	for _, m := range members.OfService(all, service) {
		if m.Ready && !m.Draining {
			return false
		}
	}
	return true
}

// missing says which stage is missing on a token's way of a model; nil: none.
func missing(all []*pb.Member, model string) error {
	for _, stage := range stages {
		if Lacks(all, stage.service) {
			return fmt.Errorf(stage.lack, model)
		}
	}
	return nil
}
