package bridge

import (
	"encoding/binary"

	bolt "go.etcd.io/bbolt"
)

// probeID is no id of a command.
const probeID = "\x00writable"

// writable makes a write of the journal and takes it back in the same
// transaction: the disk is asked as by a command with an effect, through the
// same pages, and no record is there afterwards that was not before.
func (s *store) writable() error {
	return s.update(func(tx *bolt.Tx) error {
		journal, order := tx.Bucket(bucketJournal), tx.Bucket(bucketOrder)
		last := binary.BigEndian.AppendUint64(nil, order.Sequence()+1)
		if err := order.Put(last, []byte(probeID)); err != nil {
			return err
		}
		if err := putJSON(tx, bucketJournal, probeID, journalEntry{ID: probeID}); err != nil {
			return err
		}
		if err := journal.Delete([]byte(probeID)); err != nil {
			return err
		}
		return order.Delete(last)
	})
}
