package members

import (
	"fmt"
	"strings"

	"github.com/switchyard/switchyard/pkg/transport/catalog"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// StageNames returns the services that every token passes, in the order of its way.
func StageNames() []string { return catalog.Names(catalog.Way) }

// TokenStage is the stage that is missing where all services are there, and no token flows.
const TokenStage = "token"

// Lack is a stage that is missing.
type Lack struct {
	Stage string `json:"stage"`
	Why   string `json:"why"`
}

// Lacking lists what is missing, in the order of a token's way; empty: nothing, as far as
// the members know.
func Lacking(all []*pb.Member) (out []Lack) {
	for _, stage := range StageNames() {
		if why := lacks(stage, OfService(all, stage)); why != "" {
			out = append(out, Lack{stage, why})
		}
	}
	if len(out) > 0 {
		return out
	}
	if why := Troubled(OfService(all, "tokenizer")); why != "" {
		return []Lack{{TokenStage, why}}
	}
	return nil
}

// lacks says why no replica of a stage is ready; empty: one is. A gate that was ready once
// says by its trouble alone that functions of its plan are nowhere.
func lacks(stage string, all []*pb.Member) string {
	switch {
	case len(all) == 0:
		return fmt.Sprintf("there is no %s", StageReplica(stage))
	case !anyReady(all):
		return unready(stage, all)
	case stage == "gate":
		return Troubled(all)
	}
	return ""
}

func anyReady(all []*pb.Member) bool {
	for _, m := range all {
		if Serves(m) {
			return true
		}
	}
	return false
}

// Serves reports whether a replica takes work.
func Serves(m *pb.Member) bool { return m.GetReady() && !m.GetDraining() }

// unready says of replicas of which none serves how they are.
func unready(stage string, all []*pb.Member) string {
	for _, m := range all {
		switch {
		case m.GetDraining():
		case m.GetTrouble() != "":
			return fmt.Sprintf("%s is not ready: %s", m.GetId(), m.GetTrouble())
		default:
			return fmt.Sprintf("%s is not ready", m.GetId())
		}
	}
	if len(all) == 1 {
		return fmt.Sprintf("%s, the only %s, is draining", all[0].GetId(), StageReplica(stage))
	}
	return fmt.Sprintf("all %d replicas are draining", len(all))
}

// Troubled returns what the first of the serving replicas lacks if each of them lacks
// something; empty: one of them lacks nothing.
func Troubled(all []*pb.Member) (why string) {
	for _, m := range all {
		switch {
		case !Serves(m):
		case m.GetTrouble() == "":
			return ""
		case why == "":
			why = m.GetId() + ": " + m.GetTrouble()
		}
	}
	return why
}

// StageReplica returns what one replica of a service is called.
func StageReplica(service string) string {
	s, _ := catalog.Find(service)
	return s.Replica()
}

// ListLacks returns the names of what is missing.
func ListLacks(lacks []Lack) string {
	names := make([]string, len(lacks))
	for i, l := range lacks {
		names[i] = l.Stage
	}
	return strings.Join(names, ", ")
}
