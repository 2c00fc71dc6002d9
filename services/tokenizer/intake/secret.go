package intake

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// secretKey is where the bucket of leases keeps what gateways make ids of.
const secretKey = "secret"

// secret is what all replicas of a model tell gateways, so that all of these make the same id of a
// client's key and nobody else can: the first replica draws it.
func secret(ctx context.Context, bucket jetstream.KeyValue) (string, error) {
	for {
		e, err := bucket.Get(ctx, secretKey)
		if err == nil {
			return base64.RawURLEncoding.EncodeToString(e.Value()), nil
		}
		if !errors.Is(err, jetstream.ErrKeyNotFound) {
			return "", fmt.Errorf("reading the secret of clients' keys: %w", err)
		}
		drawn := make([]byte, 32)
		_, _ = rand.Read(drawn) // it does not fail
		if _, err := bucket.Create(ctx, secretKey, drawn); err != nil && !errors.Is(err, jetstream.ErrKeyExists) {
			return "", fmt.Errorf("drawing the secret of clients' keys: %w", err)
		}
	}
}
