package intake

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// secretKey is where the bucket of leases keeps what gateways make ids of.
const (
	secretKey   = "secret"
	secretBytes = 32
)

// secret is what all replicas of a model tell gateways, so that all of these make the same id of a
// client's key and nobody else can: the first replica draws it.
func secret(ctx context.Context, bucket jetstream.KeyValue) (string, error) {
	for {
		e, err := bucket.Get(ctx, secretKey)
		if err == nil && len(e.Value()) == secretBytes {
			return base64.RawURLEncoding.EncodeToString(e.Value()), nil
		}
		if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
			return "", fmt.Errorf("reading the secret of clients' keys: %w", err)
		}
		drawn := make([]byte, secretBytes)
		_, _ = rand.Read(drawn) // it does not fail
		if err == nil {         // what is there was not drawn: everybody may know it, or it fills what gateways are told
			_, err = bucket.Update(ctx, secretKey, drawn, e.Revision())
		} else {
			_, err = bucket.Create(ctx, secretKey, drawn)
		}
		if err != nil && !errors.Is(err, jetstream.ErrKeyExists) && !bus.IsWrongSequence(err) {
			return "", fmt.Errorf("drawing the secret of clients' keys: %w", err)
		}
	}
}
