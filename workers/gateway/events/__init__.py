"""Event streams: cut into events, read without decoding where that is safe, and passed on as they came.

event_stream.py  bytes into events                     streams.py     what is read and changed on the way
event_shape.py   what the events of a stream share     event_fields.py where things stand in them
loose_events.py  events written in another way        running_counts.py usage along with each event
dialects.py      how usage is asked for, and told
"""
