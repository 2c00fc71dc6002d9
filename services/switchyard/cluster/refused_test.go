package cluster

import (
	"context"
	"errors"
	"testing"

	"github.com/switchyard/switchyard/pkg/process/deployment"
)

// A process whose replica may not come is not ready, and says why, until it may.
func TestKeptOut(t *testing.T) {
	p := NewPipeline(nil, Services{}, nil)
	p.keepOut(&deployment.ClassError{Member: "gate-1"})
	var why *deployment.ClassError
	if err := p.Ready(); !errors.As(err, &why) || why.Member != "gate-1" {
		t.Errorf("it is ready: %v", err)
	}
	p.keepOut(nil)
	if err := p.Ready(); errors.As(err, &why) {
		t.Errorf("it may come: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Stop(ctx); err != nil {
		t.Error(err)
	}
}
