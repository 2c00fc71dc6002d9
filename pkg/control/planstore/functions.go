package planstore

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// ErrIllegalFunctions says that a record cannot be what a replica has written.
var ErrIllegalFunctions = errors.New("no legal record of functions")

// gatePrefix begins the keys of gates.
const gatePrefix = "gate."

// Bounds of what is believed.
const (
	maxBody     = 512 << 10
	maxReason   = 512
	maxReplicas = 4096 // of one service
	// perExpert is plan.Rules' bound of functions, and as many on their way out.
	perExpert = 8
)

// HostKey returns the key of a host's functions of a layer.
func HostKey(layer int, host string) string { return strconv.Itoa(layer) + "." + host }

// parseHostKey is HostKey's inverse.
func parseHostKey(key string) (layer int, host string, err error) {
	number, host, _ := strings.Cut(key, ".")
	layer, err = strconv.Atoi(number)
	if err != nil || key != HostKey(layer, host) || !schemas.IsReplicaID(host) {
		return 0, "", fmt.Errorf("%w: key %.80q is none", ErrIllegalFunctions, key)
	}
	return layer, host, nil
}

// AnyKey is the pattern of all keys.
const AnyKey = "*.*"

// GateKey returns the key of a gate.
func GateKey(gate string) string { return gatePrefix + gate }

// FunctionSettings say what a legal record is.
type FunctionSettings struct {
	MoELayers []int
	Experts   int
	// Illegal, if set, is called for each record that is not believed.
	Illegal func(error)
}

// DecodeHost checks a host's record before anything follows it.
func (s FunctionSettings) DecodeHost(key string, body []byte) (*pb.HostLayer, error) {
	r := &pb.HostLayer{}
	if err := decode(key, body, r); err != nil {
		return nil, err
	}
	if !schemas.IsReplicaID(r.Host) || key != HostKey(int(r.Layer), r.Host) || !slices.Contains(s.MoELayers, int(r.Layer)) {
		return nil, fmt.Errorf("%w at key %.80q: it is of host %.64q and layer %d", ErrIllegalFunctions, key, r.Host, r.Layer)
	}
	if n := len(r.Functions); n > perExpert*s.Experts {
		return nil, fmt.Errorf("%w at key %.80q: %d functions for %d experts", ErrIllegalFunctions, key, n, s.Experts)
	}
	seen := make(map[string]bool, len(r.Functions))
	for _, f := range r.Functions {
		if err := checkState(f, seen); err != nil {
			return nil, fmt.Errorf("%w at key %.80q: function %.64q %w", ErrIllegalFunctions, key, f.GetId(), err)
		}
		seen[f.Id] = true
	}
	return r, nil
}

func checkState(f *pb.FunctionState, seen map[string]bool) error {
	switch phase := f.GetPhase(); {
	case len(f.GetId()) != 16 || !schemas.IsReplicaID(f.GetId()):
		return errors.New("has no function's id")
	case seen[f.Id]:
		return errors.New("is there twice")
	case phase < pb.FunctionPhase_FUNCTION_PHASE_COLD || phase > pb.FunctionPhase_FUNCTION_PHASE_REFUSED:
		return fmt.Errorf("is in phase %d, which is none", phase)
	case len(f.GetReason()) > maxReason:
		return fmt.Errorf("has a reason of %d bytes", len(f.GetReason()))
	}
	return nil
}

// DecodeGate checks a gate's record before anything follows it.
func (s FunctionSettings) DecodeGate(key string, body []byte) (*pb.GateLayers, error) {
	r := &pb.GateLayers{}
	if err := decode(key, body, r); err != nil {
		return nil, err
	}
	if !schemas.IsReplicaID(r.Gate) || key != GateKey(r.Gate) {
		return nil, fmt.Errorf("%w at key %.80q: it is of gate %.64q", ErrIllegalFunctions, key, r.Gate)
	}
	for l := range r.Versions {
		if !slices.Contains(s.MoELayers, int(l)) {
			return nil, fmt.Errorf("%w at key %.80q: the model has no experts in layer %d", ErrIllegalFunctions, key, l)
		}
	}
	return r, nil
}

func decode(key string, body []byte, into proto.Message) error {
	if len(body) > maxBody {
		return fmt.Errorf("%w at key %.80q: %d bytes", ErrIllegalFunctions, key, len(body))
	}
	if err := proto.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%w at key %.80q: %w", ErrIllegalFunctions, key, err)
	}
	return nil
}
