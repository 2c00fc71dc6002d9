package browned

import (
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/engine"
	"github.com/switchyard/switchyard/services/attention/layer"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// obey has all steps of a pipeline obey a stamp.
func obey(c *cluster.Settings, s *pb.Stamp, exempt []int) {
	o := &layer.Order{Stamp: s}
	for _, l := range exempt {
		o.Exempt = append(o.Exempt, uint32(l))
	}
	c.Services.Attention.Directives = fixed{o}
}

// fixed is a directive that nobody changes.
type fixed struct{ order *layer.Order }

func (f fixed) Now(bool) engine.Directive { return engine.Directive{Order: f.order, Share: 1} }
func (fixed) Step(engine.Stepped)         {}
func (fixed) Wait(engine.Waiting)         {}
