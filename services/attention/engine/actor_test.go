package engine

import (
	"fmt"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// actor is a sequence with its log and its delivery.
type actor struct {
	*logbook
	*Sequence
	name    string
	stage   *stage
	pages   int
	renewed bool // when its keeper looked last
	settled bool
}

// look tells what changed without a call.
func (a *actor) look() {
	g := a.stage
	a.lookAtPages()
	if !a.renewed && !a.settled {
		a.settled = true
		g.tell("%s is renewed no longer", a.name)
	}
}

func (a *actor) lookAside() {
	if a.table == nil && a.pages > 0 && !a.ended {
		a.pages = 0
		a.stage.tell("%s steps aside with %d tokens", a.name, a.generated())
	}
}

func (a *actor) lookAtPages() {
	if a.table == nil || a.ended {
		return
	}
	before, free := a.pages, fmt.Sprintf("(%d of %d are free)", a.stage.kv.Free(), a.stage.kv.Capacity())
	switch a.pages = a.table.Reserved(); {
	case before == 0:
		a.stage.tell("%s has its pages %s", a.name, free)
	case a.pages > before:
		a.stage.tell("%s takes %d more %s", a.name, a.pages-before, free)
	}
}

// Append is the log's.
func (a *actor) Append(r *pb.Record) error {
	err := a.logbook.Append(r)
	switch k := r.Kind.(type) {
	case *pb.Record_Token:
		a.stage.tell("log of %s: token %d is %d%s", a.name, k.Token.Index, k.Token.Id, failed(err))
	case *pb.Record_Score:
		a.stage.tell("log of %s: score of position %d%s", a.name, k.Score.Position, failed(err))
	case *pb.Record_Trial:
		a.stage.tell("log of %s: a trial %s%s", a.name, map[bool]string{false: "begins", true: "is over"}[k.Trial.Over], failed(err))
	case *pb.Record_Terminal:
		a.stage.tell("log of %s: end by %s%s%s", a.name, k.Terminal.FinishReason, cause(k.Terminal), failed(err))
	}
	return err
}

func failed(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf(", not written: %v", err)
}

func cause(t *pb.Terminal) string {
	if t.Error == nil {
		return ""
	}
	return fmt.Sprintf(" (%s: %s)", t.Error.Code, t.Error.Message)
}

// told is a delivery that tells when it is settled.
type told struct{ *actor }

func (d told) Ack() error {
	d.settled = true
	d.stage.tell("%s is acknowledged", d.name)
	return nil
}

func (d told) Nak(time.Duration) error { return nil }
func (d told) End(error) error         { return nil }
func (d told) InProgress() error       { d.renewed = true; return nil }
func (d told) AckSubject() string      { return d.name }
