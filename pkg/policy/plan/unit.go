package plan

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/policy/unit"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Groups is how many united experts of a way stand in for so many experts: the last
// group may be smaller.
func Groups(experts, way int) int { return (experts + way - 1) / way }

// Bundle names the united experts of one way, as their file is named in logs. The zero Bundle is
// none.
type Bundle struct {
	Way int
	ID  uint64
}

// stand is a united expert of a layer.
type stand struct {
	Bundle
	group uint32
}

// checkKind says what is wrong with the kind and the way of a function's units.
func (r Rules) checkKind(f *pb.Function) error {
	kind := unit.Kind(min(uint64(f.GetKind()), 255))
	if err := kind.Check(); err != nil {
		return fmt.Errorf("its kind is %d: %w; upgrade this replica, or plan without such functions", f.GetKind(), err)
	}
	if united := f.GetKind() == United; united == (f.GetBundle() == 0) {
		return fmt.Errorf("its bundle is %016x; united experts have one, and others none", f.GetBundle())
	}
	return CheckWay(f.GetKind(), f.GetWay(), r.Experts)
}

// CheckWay says why units of a known kind cannot stand in for so many experts of a layer.
func CheckWay(kind pb.FunctionKind, way uint32, experts int) error {
	switch united := kind == United; {
	case !united && way != 0:
		return fmt.Errorf("its way is %d; a routed expert stands in for itself alone, and has no way", way)
	case united && (way < 2 || uint64(way) > uint64(experts)):
		return fmt.Errorf("its way is %d; a united expert stands in for 2 to %d experts", way, experts)
	}
	return nil
}

// checkTransfer says why rows cannot reach a function as a plan says.
func checkTransfer(f *pb.Function) error {
	switch t := f.GetTransfer(); {
	case t < pb.TransferMode_TRANSFER_MODE_UNSPECIFIED || t > Direct:
		return fmt.Errorf("its transfer mode is %d; known are %d (pipelined), %d (indirect) and %d (direct)", t, Pipelined, Indirect, Direct)
	case t == Pipelined && f.GetMinibatch() == 0:
		return fmt.Errorf("it is pipelined in minibatches of no rows; they have 1 or more")
	case t != Pipelined && f.GetMinibatch() != 0:
		return fmt.Errorf("its minibatches have %d rows; only the pipelined transfer mode has minibatches", f.GetMinibatch())
	}
	return nil
}

// mostRented bounds the memory that a replica is rented with: a PiB.
const mostRented = 1 << 50

// mostForetold bounds the rows that are foretold for a function.
const mostForetold = 1 << 50

// checkRented says what of a function no platform rents.
func checkRented(f *pb.Function) error {
	switch {
	case f.GetMemoryBytes() > mostRented:
		return fmt.Errorf("its replicas have %d bytes of memory; %d is the most", f.GetMemoryBytes(), int64(mostRented))
	case f.GetBeside() && f.GetMemoryBytes() == 0:
		return fmt.Errorf("it is rented beside attention with no memory; what is rented has some")
	case !(f.GetForetold() >= 0 && f.GetForetold() <= mostForetold):
		return fmt.Errorf("%v rows are foretold for it; it must be 0 to %v", f.GetForetold(), float64(mostForetold))
	case f.GetMemoryBytes() > 0 && f.GetKind() != Routed:
		return fmt.Errorf("it is of kind %d and rented; only routed experts are", f.GetKind())
	}
	return nil
}

// addUnited enters a function of united experts.
func (r Rules) addUnited(l *Layer, at int32, f *pb.Function) error {
	if l.stands == nil {
		l.stands = map[stand][]int32{}
	}
	groups := Groups(r.Experts, int(f.Way))
	for _, g := range f.Experts {
		if int64(g) >= int64(groups) {
			return fmt.Errorf("united expert %d of way %d does not exist; %d experts make %d", g, f.Way, r.Experts, groups)
		}
		key := stand{Bundle{int(f.GetWay()), f.GetBundle()}, g}
		if of := l.stands[key]; len(of) > 0 && of[len(of)-1] == at {
			return fmt.Errorf("united expert %d is in it twice", g)
		}
		l.stands[key] = append(l.stands[key], at)
	}
	return nil
}

// United is the function that united expert g of a bundle has, as an index in Targets; false
// while no host has it warm, so that rows stay with the experts they chose.
func (r *Routes) United(of Bundle, g int) (target int, ok bool) {
	i, ok := r.stands[stand{of, uint32(g)}]
	return int(i), ok
}

// uniteds enters the first function of each united expert that has a warm host.
func (c *chooser) uniteds() {
	for key, planned := range c.l.stands {
		f := c.first(planned, func(f *pb.Function) bool { return len(c.of(f).warm()) > 0 })
		if f == nil {
			continue
		}
		if c.next.stands == nil {
			c.next.stands = map[stand]int32{}
		}
		c.next.stands[key] = c.target(f)
	}
}
