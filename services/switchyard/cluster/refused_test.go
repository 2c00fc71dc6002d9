package cluster

import (
	"context"
	"errors"
	"testing"

	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
)

// steady is a service that runs until it is stopped.
type steady struct{}

func (steady) Name() string                { return "steady" }
func (steady) Start(context.Context) error { return nil }
func (steady) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
func (steady) Stop(context.Context) error { return nil }

// A process whose replica may not stay ends, and says why.
func TestRefused(t *testing.T) {
	group := lifecycle.NewGroup("services", steady{})
	if err := group.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := NewPipeline(nil, Services{}, nil)
	p.group = group
	for range 2 {
		p.refuse(&deployment.ClassError{Member: "gate-1"})
	}
	var why *deployment.ClassError
	if err := p.Ready(); !errors.As(err, &why) {
		t.Errorf("it is ready: %v", err)
	}
	if err := p.Run(t.Context()); !errors.As(err, &why) || why.Member != "gate-1" {
		t.Errorf("it ended with %v", err)
	}
	if err := group.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}
