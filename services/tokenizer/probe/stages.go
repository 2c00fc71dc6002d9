package probe

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Lacks says whether no replica of a service is ready.
func Lacks(all []*pb.Member, service string) bool {
	for _, m := range members.OfService(all, service) {
		if m.Ready && !m.Draining {
			return false
		}
	}
	return true
}

// stages are the services on a token's way that others take a tokenizer's requests through.
func stages() (all []catalog.Service) {
	for _, s := range catalog.All(catalog.Way) {
		if s.Lack != "" {
			all = append(all, s)
		}
	}
	return all
}

// missing says which stage is missing on a token's way of a model; nil: none.
func missing(all []*pb.Member, model string) error {
	for _, s := range stages() {
		if Lacks(all, s.Name) {
			return fmt.Errorf(s.Lack, model)
		}
	}
	return nil
}
