package expert

import (
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// checkUnited refuses united experts that the host cannot hold, or that are not the model's.
func (c Config) checkUnited(m *model.Model) error {
	switch {
	case c.United == "":
		return nil
	case c.Offload != "" && c.Offload != NoOffload:
		return fmt.Errorf("--united is %s, and --offload %s: united experts stay in memory, and a host that offloads has room for nothing else; give one of the two", c.United, c.Offload)
	case c.GPU != nil:
		return errors.New("--united is for expert hosts on cpu or paced; a GPU holds no united experts yet")
	}
	s, err := united.OpenAll(c.United, m)
	if err != nil {
		return fmt.Errorf("--united: %w", err)
	}
	return s.Close()
}

// openUnited is the host's united experts; nil, if it has none.
func (c Config) openUnited(m *model.Model) (*united.Set, error) {
	if c.United == "" || c.Device != nil {
		return nil, nil //nolint:nilnil // a set of none is nil
	}
	s, err := united.OpenAll(c.United, m)
	if err != nil {
		return nil, fmt.Errorf("--united: %w", err)
	}
	return s, nil
}

// offers are what the host tells of its united experts. On a paced device one takes as much as
// any expert.
func (s *Service) offers() (all []*pb.UnitedExperts) {
	for _, b := range s.united.Bundles() {
		o := plan.Offer{Bundle: plan.Bundle{Way: b.Way, ID: b.ID()}, Bytes: uint64(b.Bytes()), Without: b.Lacks(), Grouped: b.Grouped()}
		if s.config.Profile != nil {
			o.Bytes = uint64(s.config.Profile.Expert())
		}
		all = append(all, o.Proto())
	}
	return all
}
