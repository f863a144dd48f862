package bridge

import (
	"context"

	bolt "go.etcd.io/bbolt"
)

// bucketLeases holds LeaseRecord by connector id and target id.
var bucketLeases = []byte("leases")

var _ LeaseStore = (*store)(nil)

func leaseKey(connectorID, targetID string) string { return connectorID + "/" + targetID }

// Leases returns every debugger lease. It implements [LeaseStore].
func (s *store) Leases(context.Context) ([]LeaseRecord, error) {
	var all []LeaseRecord
	err := s.view(func(tx *bolt.Tx) error { return readAll(tx, bucketLeases, &all) })
	return all, err
}

// SaveLease stores a debugger lease.
func (s *store) SaveLease(_ context.Context, r LeaseRecord) error {
	return s.update(func(tx *bolt.Tx) error { return putJSON(tx, bucketLeases, leaseKey(r.ConnectorID, r.TargetID), r) })
}

// RemoveLease forgets a debugger lease.
func (s *store) RemoveLease(_ context.Context, connectorID, targetID string) error {
	return s.update(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketLeases).Delete([]byte(leaseKey(connectorID, targetID)))
	})
}

// removeLeases forgets every lease of a profile.
func removeLeases(tx *bolt.Tx, connectorID string) error {
	var all []LeaseRecord
	if err := readAll(tx, bucketLeases, &all); err != nil {
		return err
	}
	for _, r := range all {
		if r.ConnectorID != connectorID {
			continue
		}
		if err := tx.Bucket(bucketLeases).Delete([]byte(leaseKey(r.ConnectorID, r.TargetID))); err != nil {
			return err
		}
	}
	return nil
}
