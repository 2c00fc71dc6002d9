package intake

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
)

// The secret is what a replica has drawn: what others may have written in its place, and what is deleted, is
// drawn anew, and the next replica has the same.
func TestSecret(t *testing.T) {
	d := testdeployment.Open(t)
	for _, there := range [][]byte{nil, {}, []byte("known"), bytes.Repeat([]byte{1}, 1<<19), bytes.Repeat([]byte{0}, secretBytes-1)} {
		if there != nil {
			if _, err := d.Leases.Put(t.Context(), secretKey, there); err != nil {
				t.Fatal(err)
			}
		}
		one, err := secret(t.Context(), d.Leases)
		if err != nil {
			t.Fatal(err)
		}
		if other, err := secret(t.Context(), d.Leases); err != nil || other != one || len(one) != base64.RawURLEncoding.EncodedLen(secretBytes) {
			t.Errorf("%.10q: %q and %q, %v", there, one, other, err)
		}
	}
	if err := d.Leases.Delete(t.Context(), secretKey); err != nil {
		t.Fatal(err)
	}
	if one, err := secret(t.Context(), d.Leases); err != nil || len(one) != base64.RawURLEncoding.EncodedLen(secretBytes) {
		t.Errorf("deleted: %q, %v", one, err)
	}
}
