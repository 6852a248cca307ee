package sqlite

import (
	"context"
	"encoding/json"
	"time"
)

// HostModel is a row of host_models: the measurements of a host, and their time. Users of Model check it.
type HostModel struct {
	ID      int64           `json:"id"`
	Runtime string          `json:"runtime"`
	Host    string          `json:"host"`
	Kernel  string          `json:"kernel"`
	Engine  string          `json:"engine"`
	Cores   int             `json:"cores"`
	Gantry  string          `json:"gantry"` // version
	Created time.Time       `json:"created"`
	Busy    float64         `json:"busy_cores"` // that others used meanwhile
	Model   json.RawMessage `json:"model"`
	Damaged error           `json:"-"` // the fault of the row; nil: none
}

// KeepHostModel stores a new host model, and sets its ID.
func (db *DB) KeepHostModel(ctx context.Context, m *HostModel) error {
	return db.transact(func() error {
		var err error
		m.ID, err = db.queryInt(`INSERT INTO host_models(runtime, host, kernel, engine, cores, gantry, created_wall,
			busy, model) VALUES (?,?,?,?,?,?,?,?,?) RETURNING id`, m.Runtime, m.Host, m.Kernel, m.Engine,
			m.Cores, m.Gantry, wall(m.Created), m.Busy, string(m.Model))
		return err
	})
}

// HostModels lists the host models of a runtime, the newest first; of all runtimes if its name is "". Rows that cannot
// be read are among them, as damaged.
func (db *DB) HostModels(ctx context.Context, runtime string) ([]HostModel, error) {
	all := []HostModel{}
	err := db.Each(ctx, func(scan Scan) error {
		var m HostModel
		var model string
		m.Damaged = scan(&m.ID, &m.Runtime, &m.Host, &m.Kernel, &m.Engine, &m.Cores, &m.Gantry, (*wall)(&m.Created),
			&m.Busy, &model)
		m.Model = json.RawMessage(model)
		all = append(all, m)
		return nil
	}, `SELECT id, runtime, host, kernel, engine, cores, gantry, created_wall, busy, model
		FROM host_models WHERE ? IN (runtime, '') ORDER BY id DESC`, runtime)
	return all, err
}
