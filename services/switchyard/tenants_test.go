package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// The bounds that an operator sets for a tenant reach who admits.
func TestTenantFlag(t *testing.T) {
	t.Parallel()
	y := startUp(t, func(c *up.Cmd) { c.Tenant, c.MaxModelLen = []string{"acme:tokens=1"}, 0 })
	ask := func(id string) error {
		most := int32(4)
		c := client.New(y.Conn(t).NATS(), client.Settings{Model: y.Name(), Tenant: "acme"})
		s, err := c.Prompt(t.Context(), &pb.Prompt{RequestId: id, InputIds: slices.Repeat([]uint32{5}, 16), MaxTokens: &most, IgnoreEos: true})
		if err != nil {
			return err
		}
		for chunk, err := range s.Chunks() {
			if err != nil {
				return err
			}
			if failed := client.Failure(chunk); failed != nil {
				return failed
			}
		}
		return nil
	}
	if err := ask("one"); err != nil {
		t.Fatal(err)
	}
	// At a token a minute it has its 20 back after longer than tests may take, however slow this machine is.
	var refused *client.Error
	if err := ask("two"); !errors.As(err, &refused) || refused.Code != client.CodeOverloaded || refused.RetryAfter < time.Second || !strings.Contains(refused.Message, "its quota of tokens") {
		t.Errorf("got %v, want that the tenant has had its tokens", err)
	}
}
