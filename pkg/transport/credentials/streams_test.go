package credentials_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit/testusers"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/schemas"
)

// foreign are the ways in which who may make or change a stream has it take in, or send
// on, what he may not read or write himself.
func foreign(name string) []jetstream.StreamConfig {
	subject := jetstream.StreamConfig{Name: name, Subjects: []string{"switchyard.ask.>"}}
	inboxes := jetstream.StreamConfig{Name: name, Subjects: []string{"_INBOX.>"}}
	mirror := jetstream.StreamConfig{Name: name, Mirror: &jetstream.StreamSource{Name: "switchyard_TOKENS_demo"}}
	source := jetstream.StreamConfig{Name: name, Sources: []*jetstream.StreamSource{{Name: "switchyard_TOKENS_demo"}}}
	sent := jetstream.StreamConfig{Name: name, Subjects: []string{"mine"}, RePublish: &jetstream.RePublish{Source: ">", Destination: "_INBOX.producer.x"}}
	moved := jetstream.StreamConfig{Name: name, Subjects: []string{"mine"}, SubjectTransform: &jetstream.SubjectTransformConfig{Source: "mine", Destination: "switchyard.prompt.demo"}}
	return []jetstream.StreamConfig{subject, inboxes, mirror, source, sent, moved}
}

// No user but setup makes, changes, deletes, restores or copies a stream, whatever he would
// have it do: the server refuses, and all streams are what they were.
func TestOnlySetupMakesStreams(t *testing.T) {
	f := folder(t)
	s := testusers.Serve(t, testusers.Plain(t, f))
	names := makeStreams(t, f, s.URL())
	admin, err := jetstream.New(login(t, f, s, "admin"))
	if err != nil {
		t.Fatal(err)
	}
	before := streamsOf(t, admin)
	for _, u := range rights.Users(settings().Scope) {
		if u.Name == rights.Setup {
			continue
		}
		nc := login(t, f, s, u.Name, nats.CustomInboxPrefix(u.Inbox))
		var subjects []string
		for _, name := range append(slices.Clone(names), "mine") {
			for _, call := range []string{"CREATE", "UPDATE", "DELETE", "RESTORE", "SNAPSHOT", "PEER.REMOVE", "LEADER.STEPDOWN"} {
				subjects = append(subjects, "$JS.API.STREAM."+call+"."+name)
			}
		}
		refused := refusals(t, nc, "Publish", subjects, func(subject string) error { return abuse(nc, subject) })
		for _, subject := range subjects {
			if !refused[subject] {
				t.Errorf("%s may use %s", u.Name, subject)
			}
		}
	}
	if after := streamsOf(t, admin); !slices.Equal(before, after) {
		t.Errorf("before: %v\nafter: %v", before, after)
	}
}

// abuse uses a call with all that could be made of it.
func abuse(nc *nats.Conn, subject string) error {
	name := schemas.LastToken(subject)
	bodies := [][]byte{nil}
	for _, c := range foreign(name) {
		body, err := json.Marshal(c)
		if err != nil {
			return err
		}
		bodies = append(bodies, body)
	}
	for _, body := range bodies {
		if err := nc.PublishRequest(subject, nc.NewRespInbox(), body); err != nil {
			return err
		}
	}
	return nil
}

// makeStreams makes the model's streams as setup, and names them.
func makeStreams(t *testing.T, f interface{ Creds(string) string }, url string) (names []string) {
	t.Helper()
	conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Creds: f.Creds(rights.Setup)}, bus.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	want := deployment.Wanted(schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "demo"), Hops: schemas.HopsUnacked}, []int{0})
	if _, err := conn.Provide(t.Context(), bus.Provision{Replicas: 1}, want...); err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		names = append(names, w.Name)
	}
	return names
}

// streamsOf is what all streams are and hold.
func streamsOf(t *testing.T, js jetstream.JetStream) (all []string) {
	t.Helper()
	infos := js.ListStreams(t.Context())
	for info := range infos.Info() {
		all = append(all, fmt.Sprintf("%s %v %d %+v", info.Config.Name, info.Created, info.State.LastSeq, info.Config.Subjects))
	}
	if err := infos.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}
