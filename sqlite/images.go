package sqlite

import "context"

// Image is the image that a name stood for in a run.
type Image struct {
	Ref string `json:"image"` // as the workflow names it
	ID  string `json:"id"`    // sha256:...: containers are made by it
	// NAME@sha256:... in a registry; "" if the image never was in one
	Digest   string `json:"digest,omitempty"`
	Platform string `json:"platform"` // such as linux/amd64
	Bytes    int64  `json:"size_bytes"`
	Source   string `json:"source"` // local, pulled or loaded
	Took     Span   `json:"took_s"` // to pull or load it
}

// Name is the digest in a registry, else the ID: nothing else is the same image.
func (i *Image) Name() string {
	if i.Digest != "" {
		return i.Digest
	}
	return i.ID
}

func (db *DB) insertImages(run int64, images []Image) error {
	for _, i := range images {
		if err := db.exec("INSERT OR REPLACE INTO images(run, image, id, digest, platform, size_bytes, source, "+
			"took_ns) VALUES (?,?,?,?,?,?,?,?)", run, i.Ref, i.ID, message(i.Digest), i.Platform, i.Bytes, i.Source,
			i.Took); err != nil {
			return err
		}
	}
	return nil
}

// AddImages keeps images of a run that continues, which it did not have before.
func (r *Run) AddImages(images []Image) error {
	err := r.db.transact(func() error { return r.db.insertImages(r.id, images) })
	if err == nil {
		r.info.Images = append(r.info.Images, images...)
	}
	return err
}

// ImagesOf returns the images of a run, by name.
func (db *DB) ImagesOf(ctx context.Context, run int64) ([]Image, error) {
	return RowsOf[Image](ctx, db, `SELECT image, id, coalesce(digest, ''), platform, size_bytes, source, took_ns
		FROM images WHERE run = ? ORDER BY image`, run)
}
