package planstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	_ "github.com/switchyard/switchyard/pkg/policy/policies" // registers those that settings name
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// SettingsKey is the key of the settings of plans.
const SettingsKey = "settings"

var (
	// ErrIllegalSettings says that what the bucket holds are no settings.
	ErrIllegalSettings = errors.New("the bucket holds no legal settings of plans")
	// ErrGarbage says in addition that nobody can have set what is there.
	ErrGarbage = errors.New("it is none that a client has set")
)

// Settings reads the settings of the deployment's plans, and reports whether anybody
// has written any: else they are the default ones.
func (s *Store) Settings(ctx context.Context) (settings plan.Settings, written bool, err error) {
	settings, revision, err := readSettings(ctx, s.kv)
	return settings, revision > 0, err
}

// ChangeSettings is ChangeSettings in this store's bucket.
func (s *Store) ChangeSettings(ctx context.Context, change plan.Settings) (plan.Settings, error) {
	return ChangeSettings(ctx, s.kv, change)
}

// FollowKeys calls heard with every key of the bucket that is written, until
// stop is called. What is written while the connection is away is not heard.
func (s *Store) FollowKeys(heard func(key string)) (stop func(), err error) {
	b, err := bus.AsBucket(s.kv)
	if err != nil {
		return nil, err
	}
	return b.Conn().FollowKeys(b.Bucket(), ">", func(key string, _ []byte, _ bool) { heard(key) })
}

// readSettings reads the settings in a bucket of plans, and their revision: the default
// ones and 0 while it has none.
func readSettings(ctx context.Context, kv jetstream.KeyValue) (s plan.Settings, revision uint64, err error) {
	entry, err := kv.Get(ctx, SettingsKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return plan.DefaultSettings(), 0, nil
	}
	if err != nil {
		return s, 0, fmt.Errorf("reading the settings of plans: %w", err)
	}
	s, err = DecodeSettings(entry.Value())
	return s, entry.Revision(), err
}

// DecodeSettings reads the value of SettingsKey.
func DecodeSettings(value []byte) (plan.Settings, error) {
	p := &pb.PlanSettings{}
	if err := proto.Unmarshal(value, p); err != nil {
		return plan.Settings{}, fmt.Errorf("%w: decoding what is there: %w: %w", ErrIllegalSettings, ErrGarbage, err)
	}
	s := plan.SettingsOf(p)
	if err := s.Check(); err != nil {
		return plan.Settings{}, fmt.Errorf("%w: %w", ErrIllegalSettings, err)
	}
	return s, nil
}

// changeTries is how often a change is tried that others' changes get before.
const changeTries = 10

// ChangeSettings replaces those settings that change names, and returns the new
// ones; what is not legal in the bucket counts as the default ones.
func ChangeSettings(ctx context.Context, kv jetstream.KeyValue, change plan.Settings) (plan.Settings, error) {
	s, _, err := ChangeSettingsAt(ctx, kv, change)
	return s, err
}

// ChangeSettingsAt is ChangeSettings that also returns the new ones' revision.
func ChangeSettingsAt(ctx context.Context, kv jetstream.KeyValue, change plan.Settings) (plan.Settings, uint64, error) {
	for range changeTries {
		old, revision, err := readSettings(ctx, kv)
		if err != nil && !errors.Is(err, ErrIllegalSettings) {
			return old, 0, err
		}
		if err != nil {
			old = plan.DefaultSettings()
		}
		s := old.With(change)
		if err := s.Check(); err != nil {
			return s, 0, err
		}
		now, err := writeSettings(ctx, kv, s, revision)
		if !bus.IsWrongSequence(err) {
			return s, now, err
		}
	}
	return plan.Settings{}, 0, fmt.Errorf("changing the settings of plans: others changed them meanwhile, %d times; try again", changeTries)
}

// MendSettings writes settings over garbage; what somebody has set stays.
func (s *Store) MendSettings(ctx context.Context, settings plan.Settings) error {
	_, revision, err := readSettings(ctx, s.kv)
	switch {
	case errors.Is(err, ErrGarbage):
		_, err = writeSettings(ctx, s.kv, settings, revision)
	case errors.Is(err, ErrIllegalSettings):
		return nil
	}
	if bus.IsWrongSequence(err) {
		return nil // somebody has written meanwhile
	}
	return err
}

func writeSettings(ctx context.Context, kv jetstream.KeyValue, s plan.Settings, old uint64) (revision uint64, err error) {
	body, err := proto.Marshal(s.Proto())
	if err != nil {
		return 0, fmt.Errorf("encoding the settings of plans: %w", err)
	}
	if old == 0 {
		revision, err = kv.Create(ctx, SettingsKey, body) // also behind a deletion
	} else {
		revision, err = kv.Update(ctx, SettingsKey, body, old)
	}
	if err != nil {
		return 0, fmt.Errorf("writing the settings of plans: %w", err)
	}
	return revision, nil
}
