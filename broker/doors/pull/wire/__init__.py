"""Requests and answers of long-poll pulls: RocketMQ's suspend model, with queues and dense offsets."""
