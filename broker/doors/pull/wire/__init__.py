"""What a long-poll request says and how it is answered: RocketMQ's suspend model, with queues and dense offsets."""
