package client

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What a user has no right for is told, and not waited for until patience ends.
func TestForbidden(t *testing.T) {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
		Users: []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{"switchyard.prompt.mine"}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.u.>"}},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	if !s.ReadyForConnections(testkit.Patience) {
		t.Fatal("the NATS server is not ready")
	}
	for _, tc := range []struct{ name, inbox, model, want string }{
		{"subject", "_INBOX.u", "demo", "may not publish to switchyard.prompt.demo"},
		{"inbox", "_INBOX", "mine", "may not read inboxes below _INBOX"},
	} {
		nc, err := nats.Connect(s.ClientURL(), nats.Timeout(testkit.Patience), nats.UserInfo("u", "p"), nats.CustomInboxPrefix(tc.inbox),
			nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		if err != nil {
			t.Fatal(err)
		}
		_, err = New(nc, Settings{Model: tc.model, Silence: 50 * time.Millisecond, Patience: time.Hour}).Prompt(t.Context(), &pb.Prompt{Text: "x"})
		var told *Error
		if !errors.As(err, &told) || told.Code != CodeBadRequest || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
		nc.Close()
	}
}
